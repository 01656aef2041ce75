"""What every Triton server of ours is told: its options, and the model repository of cpu engines."""
