"""PyTorch with Hugging Face Accelerate."""

ENVIRONMENT = "torch"
REQUIRES = ["torch==2.13.0", "accelerate==1.15.0"]
HAS_A_PROCESS_FOR_EACH_REPLICA = True

# This sets the environment that Accelerate reads.
import accelerate
from with_torch import serve_training

accelerator = accelerate.Accelerator(cpu=True)
serve_training(accelerator.prepare, accelerator.backward)
