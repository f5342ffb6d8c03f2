"""What fastdl.testing is made of: the suite, its producers and consumers, and its reports."""
