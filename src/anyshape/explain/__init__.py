"""What people read of compiles: explanations, dim status, blame, graphs, advice, reports."""
