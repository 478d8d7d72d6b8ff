"""The dialect func."""
