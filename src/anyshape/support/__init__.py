"""What every layer may use, and what users import by way of the root. Imports nothing of ours."""
