"""The processor's carry-less multiplication (PCLMULQDQ), with which checksums take sixty-four bytes a step.

`AVAILABLE` says whether kernels may call `fold`: numba compiles for this processor, and it has the instruction.
Source: Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import config, types
from numba.core import cgutils as untyped
from numba.core.registry import cpu_target
from numba.extending import intrinsic

LANE = 16  # bytes of a vector register
_LANES = 4  # side by side: while one product is computed, others can be begun
LEAST = LANE * _LANES  # bytes for one call
_BYTE, _WORD = ir.IntType(8), ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, 2)
_PAIR = types.UniTuple(types.uint64, 2)  # type: ignore[no-untyped-call]
cgutils: Any = untyped
_number = partial(ir.Constant, _WORD)

Factors = tuple[int, int, int, int]


def _available() -> bool:
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return False
    return "+pclmul" in cpu_target.target_context.codegen().magic_tuple()[2].split(",")


AVAILABLE = _available()


def factors(polynomial: int) -> Factors:
    """What `fold` multiplies by, for a reflected polynomial of degree 32: powers of x modulo it."""

    def power(exponent: int) -> int:
        rest = 1 << 31
        for _ in range(exponent):
            rest = rest >> 1 ^ (polynomial if rest & 1 else 0)
        return rest << 1

    far, near = 8 * LEAST, 8 * LANE
    return power(far + 32), power(far - 32), power(near + 32), power(near - 32)


@intrinsic
def fold(_: Any, data: Any, at: Any, stop: Any, crc: Any, by: Any) -> Any:  # noqa: ARG001
    """For kernels. Takes bytes from `at` on, LEAST or more, and stops less than LANE bytes before `stop`. Returns two
    words: sixteen bytes with the same remainder as all that it took, to whose first four `crc` was added. `by`: the
    `factors` of the polynomial."""
    signature = _PAIR(data, types.uint64, types.uint64, types.uint64, by)

    def code(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        array, at, stop, crc, by = arguments
        multiply = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_VECTOR, [_VECTOR, _VECTOR, _BYTE]), "llvm.x86.pclmulqdq"
        )
        bytes_at = builder.bitcast(context.make_array(data)(context, builder, array).data, _BYTE.as_pointer())
        start = builder.gep(bytes_at, [at])
        lanes = builder.udiv(builder.sub(stop, at), _number(LANE))
        side_by_side = builder.sub(lanes, builder.urem(lanes, _number(_LANES)))

        def pair(low: Any, high: Any) -> Any:
            half = builder.insert_element(ir.Constant(_VECTOR, [0, 0]), low, _number(0))
            return builder.insert_element(half, high, _number(1))

        def loaded(lane: Any) -> Any:
            place = builder.gep(start, [builder.mul(lane, _number(LANE))])
            value = builder.load(builder.bitcast(place, _VECTOR.as_pointer()))
            value.align = 1
            return value

        def folded(vector: Any, factor: Any, onto: Any) -> Any:
            low, high = (builder.call(multiply, [vector, factor, ir.Constant(_BYTE, half)]) for half in (0, 0x11))
            return builder.xor(builder.xor(low, high), onto)

        words = cgutils.unpack_tuple(builder, by)
        far, near = pair(*words[:2]), pair(*words[2:])
        sums = [cgutils.alloca_once_value(builder, loaded(_number(lane))) for lane in range(_LANES)]
        whole = sums[0]
        builder.store(builder.xor(builder.load(whole), pair(crc, _number(0))), whole)
        with cgutils.for_range_slice(builder, _number(_LANES), side_by_side, _number(_LANES)) as (lane, _):
            for k, one in enumerate(sums):
                builder.store(folded(builder.load(one), far, loaded(builder.add(lane, _number(k)))), one)
        for one in sums[1:]:
            builder.store(folded(builder.load(whole), near, builder.load(one)), whole)
        with cgutils.for_range_slice(builder, side_by_side, lanes, _number(1)) as (lane, _):
            builder.store(folded(builder.load(whole), near, loaded(lane)), whole)
        halves = [builder.extract_element(builder.load(whole), _number(half)) for half in (0, 1)]
        return context.make_tuple(builder, signature.return_type, halves)

    return signature, code
