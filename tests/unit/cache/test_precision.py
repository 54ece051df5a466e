import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from toolheads.cache.precision import DTYPES, to_floats, to_stored
from toolheads.errors import ConfigError

# Half of the distance between neighbours: 1 / 2 ** (bits of the mantissa + 1).
RELATIVE_ERROR = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 0.0}

entries = arrays(
    np.float32,
    (3, 5),
    elements=st.floats(-1, 1, width=32).filter(lambda x: x == 0 or abs(x) > 2.0**-14),
)


@pytest.mark.parametrize("dtype", DTYPES)
@given(rows=entries)
def test_a_stored_value_is_the_nearest_one_of_its_format(dtype, rows):
    back = to_floats(to_stored(rows, dtype), dtype)
    assert back.dtype == np.float32
    assert (np.abs(back - rows) <= RELATIVE_ERROR[dtype] * np.abs(rows)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@given(rows=entries)
def test_storing_what_was_read_changes_nothing(dtype, rows):
    once = to_stored(rows, dtype)
    np.testing.assert_array_equal(to_stored(to_floats(once, dtype), dtype), once)


def test_bfloat16_rounds_half_to_even():
    # bfloat16 near 1 has steps of 1/128: 1 + 1/256 and 1 + 3/256 are halfway between two values.
    halfway = np.array([[1 + 1 / 256, 1 + 3 / 256, -1 - 1 / 256]], np.float32)
    rounded = to_floats(to_stored(halfway, "bfloat16"), "bfloat16")
    np.testing.assert_array_equal(rounded, [[1.0, 1 + 4 / 256, -1.0]])


def test_an_unknown_dtype_is_refused_with_the_choices():
    with pytest.raises(ConfigError, match="one of float16, bfloat16, float32, got 'int8'"):
        to_stored(np.ones((1, 2), np.float32), "int8")
