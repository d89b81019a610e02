"""What figures show and no table holds: gradients, class features, prompts."""
