"""Histories of concurrent clients, recorded by a program and checked by Porcupine."""
