"""SGD by JAX, as a strong user writes it: a compiled scan over steps, mapped over chains.

A program of its own, because JAX is no dependency of this package. It reads lines of JSON with sizes and
the number of blocks of steps, and answers each with seconds of processor time and the mean squared weight.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from functools import lru_cache, partial
from typing import Any

STEPS_PER_BLOCK = 1000  # inputs that are drawn at once


@lru_cache
def make_block(p: int, k: int, d: int, gamma: float, noise: float) -> Any:
    """The compiled block of steps for all chains: (keys, W, W*) -> W."""
    import jax
    import jax.numpy as jnp
    from jax.scipy.special import erf

    jax.config.update("jax_enable_x64", True)
    rate, root_noise = gamma / p, math.sqrt(noise)

    def step(W_star: Any, W: Any, normals: Any) -> Any:
        x = normals[:d] / math.sqrt(d)
        fields = W @ x
        output = jnp.mean(erf(fields / math.sqrt(2.0)))
        target = jnp.mean(erf(W_star @ x / math.sqrt(2.0)))
        error = target + root_noise * normals[d] - output
        slope = math.sqrt(2.0 / math.pi) * jnp.exp(-0.5 * fields * fields)
        return W + jnp.outer(rate * error * slope, x), None

    def block(key: Any, W: Any, W_star: Any) -> Any:
        normals = jax.random.normal(key, (STEPS_PER_BLOCK, d + 1))
        return jax.lax.scan(partial(step, W_star), W, normals)[0]

    return jax.jit(jax.vmap(block))


def run(p: int, k: int, d: int, gamma: float, noise: float, chains: int, blocks: int) -> dict[str, float]:
    import jax
    import jax.numpy as jnp

    advance = make_block(p, k, d, gamma, noise)
    keys = jax.random.split(jax.random.key(0), chains * (blocks + 2)).reshape(blocks + 2, chains)
    W = jax.random.normal(keys[0, 0], (chains, p, d))
    W_star = jnp.sqrt(d) * jnp.tile(jnp.eye(k, d), (chains, 1, 1))
    advance(keys[1], W, W_star).block_until_ready()  # compile
    began = time.process_time()
    for number in range(blocks):
        W = advance(keys[2 + number], W, W_star)
    W.block_until_ready()
    return {"seconds": time.process_time() - began, "power": float(jnp.mean(W * W))}


if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    for line in sys.stdin:
        print(json.dumps(run(**json.loads(line))), flush=True)
