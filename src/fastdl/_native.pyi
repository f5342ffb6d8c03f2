# The shared library of the compiled modules; a module without names.
