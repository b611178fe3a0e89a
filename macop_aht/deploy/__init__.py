"""The trained agent elsewhere: exported to ONNX with its head selectors, run with numpy and onnxruntime alone."""
