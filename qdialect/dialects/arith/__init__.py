"""The dialect arith."""
