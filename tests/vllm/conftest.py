"""The processor can be imported only where vLLM is."""

collect_ignore = ["processor.py"]
