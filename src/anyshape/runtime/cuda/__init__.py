"""Code for NVIDIA GPUs: LLVM IR to PTX by llvmlite, PTX to machine code by the driver (libcuda),
and launches in torch's context and stream. Nothing of it is imported on machines without a GPU."""
