"""Histories of concurrent clients, checked key by key for linearizability."""
