"""What a dataset's plan is built from: nodes, columns of elements, seeds, indices."""
