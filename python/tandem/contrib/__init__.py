"""Backends for frameworks. Import the module of the framework that you have: `tandem.contrib.django`, ..."""
