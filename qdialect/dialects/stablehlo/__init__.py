"""The dialect StableHLO."""
