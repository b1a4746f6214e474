"""Measurements that a person runs: each module prints what it measured."""
