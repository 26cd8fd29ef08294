"""SmolLM2-135M on word problems of graded difficulty (README.md)."""
