"""PyTorch with Lightning Fabric."""

ENVIRONMENT = "torch"
REQUIRES = ["torch==2.13.0", "lightning-fabric==2.6.6"]
HAS_A_PROCESS_FOR_EACH_REPLICA = True

# This sets the environment that Fabric reads.
import lightning_fabric
from lightning_fabric.plugins.environments import TorchElasticEnvironment
from with_torch import TEAM, serve_training

fabric = lightning_fabric.Fabric(
    accelerator="cpu",
    devices=TEAM.size,
    strategy="ddp" if TEAM.size > 1 else "auto",
    plugins=[TorchElasticEnvironment()] if TEAM.size > 1 else None,
)
fabric.launch()
serve_training(fabric.setup, fabric.backward)
