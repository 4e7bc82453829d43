"""Gradients: `value_and_grad`, `GradientTape`, accumulation."""
