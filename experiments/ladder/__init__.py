"""The paper's methods and ablations on the arithmetic ladder (`docs/reproduction.md`)."""
