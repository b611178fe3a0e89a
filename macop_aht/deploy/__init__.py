"""The trained agent at run time: a bundle and its head selectors, with numpy and onnxruntime alone."""
