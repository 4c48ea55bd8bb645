# Every target sets up what it needs: python3.11 or later, pip and make are enough.

PYTHON ?= python3
JOBS   ?= 2
TESTS  ?= tests
# One of so many parts of the slow tests: PART=2/3.
PART   ?= 1/1
BIN    := .venv/bin
READY  := .venv/.ready
# With the libraries whose models the slow tests try.
ALL    := .venv/.libraries
# Triton, for the tests of kernels, in a folder of its own: where it could be imported by all tests,
# torch and libraries would do other things.
TRITON := .venv/triton/triton-3.9.0.dist-info
# With what makes the documentation a site.
SITE   := .venv/.site

# Test tensors are tiny: threads inside torch only get in the way of the parallel test processes.
# Tests start many processes, and Python keeps for each of them what it compiled for the first, even
# where the environment says otherwise. Neighbouring tests share what they set up: they stay in one
# process, until another one has nothing left to do.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= \
          $(BIN)/pytest -n $(JOBS) --dist worksteal --durations=25

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-all test-capped test-gpu browser emulators lint format bench docs dist site clean

help:
	@echo "make demo       see what works today"
	@echo "make test       the fast tests (TESTS=path for some of them)"
	@echo "make test-slow  the tests that take minutes (PART=2/3 for a third of them)"
	@echo "make test-all   the same, and the rest of the longest enumerations"
	@echo "make test-capped  native code as on a processor with AVX2 or NEON and no more"
	@echo "make test-gpu   the tests that need an NVIDIA GPU"
	@echo "make lint       ruff, pyright and mypy"
	@echo "make format     let ruff rewrite the sources"
	@echo "make bench      measure, and compare with peers"
	@echo "make docs       regenerate what docs/ has of tables: operators, models, errors, names, settings"
	@echo "make site       the documentation as a site, in site/"
	@echo "make dist       wheel and sdist, in dist/"
	@echo "make clean      remove the environment and everything generated"

demo: $(READY)
	$(BIN)/python examples/demo.py

test: $(READY) $(TRITON)
	$(PYTEST) $(TESTS)

test-slow: $(ALL) $(TRITON) browser emulators test-capped
	$(PYTEST) --slow --part $(PART) tests

test-all: $(ALL) $(TRITON) browser emulators test-capped
	$(PYTEST) --slow --all tests

# Native code without what only newer processors have: AVX2 and no AVX-512, NEON and no SVE.
test-capped: $(READY)
	ANYSHAPE_CPU_FEATURES=baseline $(PYTEST) --sample --part $(PART) \
	    tests/native tests/codegen tests/runtime tests/export

# For machines with an NVIDIA GPU, and a torch that knows it: what is about GPUs, and what is about
# native code, with a GPU as the default device.
test-gpu: $(READY)
	PYTHONPATH=. $(PYTEST) -p tests.gpu.parts tests/gpu
	PYTHONPATH=. $(PYTEST) -p tests.gpu.parts -p tests.gpu.on_gpu \
	    tests/api tests/native tests/data_dependent

# Kernels for the other architecture are run by qemu. Where it cannot be brought, they are only made.
emulators:
	@command -v qemu-x86_64 >/dev/null || command -v qemu-x86_64-static >/dev/null || { \
	    test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends qemu-user; \
	    } || echo "no qemu: kernels for other architectures are made, and not run"

# The report is tested in a real browser. Where it cannot be brought, those tests are skipped.
browser:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
	    test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	        chromium chromium-driver; } || \
	    echo "no chromium and chromedriver: tests that need a browser are skipped"

# All packages: types of examples and scripts are looked up in what they import.
lint: $(ALL)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

# The second takes half an hour, most of it torch.compile's: BENCH="--quick --no-torch-compile".
bench: $(READY)
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.native $(BENCH)

docs: $(ALL)
	$(BIN)/python -m scripts.operators_report
	$(BIN)/python -m scripts.models_report
	$(BIN)/python -m scripts.vector_math_report
	$(BIN)/python -m scripts.error_pages
	$(BIN)/python -m scripts.torch_names
	$(BIN)/python -m scripts.settings_page

# Warnings are errors: a link that leads nowhere, a page that is not there, a name without its docstring.
site: $(SITE)
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(BIN)/mkdocs build --strict --quiet --site-dir site

# The wheel is made of the sdist: what is missing there is missing here.
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist

clean:
	rm -rf .venv build dist site .pytest_cache .ruff_cache .hypothesis benchmarks/results
	find src tests benchmarks examples scripts -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# One pip command: the pins must bind while torch is being resolved, or CUDA packages come in.
# Some distributions ship venv without its own pip; then the system's pip fills the environment.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "anyshape needs Python 3.11 or later; '$(PYTHON)' is missing or older." >&2; \
	    echo "Name another one: make PYTHON=python3.12 <target>" >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv || { \
	    $(PYTHON) -m venv --clear --without-pip .venv && \
	    $(PYTHON) -m pip --python $(BIN)/python install pip; }
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

# Not through `constraints.txt`: a torch with CUDA brings another version of it.
$(TRITON): | $(READY)
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(@D) triton==3.9.0

$(SITE): $(READY)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev,site]'
	@touch $@

# timm and segmentation_models_pytorch ask for torchvision, which their models do not need, and whose
# wheels want CUDA's libraries: these two come alone, after what they need besides.
$(ALL): $(READY)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev,libraries,site]'
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-deps timm segmentation_models_pytorch
	@touch $@
