"""What follows from a trace: one question a file. In: the model. Out: plain values for the page."""
