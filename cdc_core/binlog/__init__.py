from pathlib import Path

from cdc_core.kernels import forget_stale

forget_stale(Path(__file__).parent)
