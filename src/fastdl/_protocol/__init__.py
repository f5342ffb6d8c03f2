"""The DLPack protocol in Python: negotiation, streams, and who copies."""
