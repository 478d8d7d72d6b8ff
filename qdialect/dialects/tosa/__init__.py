"""The dialect TOSA."""
