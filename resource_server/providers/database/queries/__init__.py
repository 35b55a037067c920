"""SQL of the manifest (declared queries): its parameters, functions and confinement."""
