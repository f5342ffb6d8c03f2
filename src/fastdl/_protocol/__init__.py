"""The DLPack protocol in Python: negotiation, streams and copies."""
