"""StableHLO: https://openxla.org/stablehlo/spec."""
