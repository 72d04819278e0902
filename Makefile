# Commands for developers. Needs python3 (3.11 or newer), make and access to Python packages.
PYTHON ?= python3
JOBS ?= 2
UV_VERSION := 0.13.7

BIN := .venv/bin
LOCKED := .venv/.locked
READY := .venv/.ready
UV = $(BIN)/uv pip install --quiet --python $(BIN)/python

# The last bits of BLAS results depend on the number of threads.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
# tests/conftest.py puts long files first; xdist would reorder files by their number of tests.
# Tests start hundreds of processes; with PYTHONDONTWRITEBYTECODE set, each would compile our modules again.
PYTEST = PYTHONDONTWRITEBYTECODE= $(ONE_THREAD) $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --durations 20 $(ARGS)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-all test-matrix serve bench validation docs lint format check audit lock vendor clean setup

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-11s %s\n", $$1, $$2}' Makefile
	@echo "  Variables: PYTHON=python3.12 (interpreter of .venv), JOBS=2 (test processes), ARGS='-k risk' (for pytest)."

setup: $(READY) ## create .venv from requirements.lock (done by the other targets when needed)

demo: $(READY) ## start a service, compute a sweep and draw it in demo-output/
	$(BIN)/python -m sweep_service.cli.demo

test: $(READY) ## run the tests except the slow ones
	$(PYTEST) -m "not slow"

test-all: $(READY) ## run all tests
	$(PYTEST)

test-matrix: $(READY) ## run the core of the tests on every Python and on the lowest versions
	$(BIN)/python tools/test_matrix.py $(ARGS)

serve: $(READY) ## start the service on this machine; stop it with Ctrl-C
	$(BIN)/sweep serve

bench: $(READY) ## measure speed and accuracy on one thread
	$(ONE_THREAD) NUMBA_NUM_THREADS=1 $(BIN)/python -m benchmarks

validation: $(READY) ## compare numbers with independent ones and write docs/validation.md
	$(ONE_THREAD) $(BIN)/python -m validation

docs: $(READY) ## build the documentation site in build/site; a broken link ends it
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open build/site/index.html"

lint: $(READY) ## run ruff (rules and format) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## fix and format the code with ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check: lint audit test ## lint, audit, then test

audit: $(READY) ## check requirements.lock for known vulnerabilities (needs the network)
	$(BIN)/python tools/audit.py

lock: $(READY) ## resolve pyproject.toml into requirements.lock; UPGRADE=--upgrade selects the newest versions
	$(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --all-extras \
		--generate-hashes --no-emit-index-url --custom-compile-command "make lock" $(UPGRADE) \
		--output-file requirements.lock

# JavaScript libraries of the page. They are kept in the repository, so that a service needs neither npm nor a CDN.
PLOTLY := 4.1.1
SWAGGER := 5.34.1
VENDOR := api/static/vendor
# The site's: diagrams, and search in a site that is opened as files.
MERMAID := 11.17.2
IFRAME_WORKER := 1.0.4
SITE_VENDOR := docs/assets/vendor
vendor: ## download the JavaScript libraries of the page and of the site (needs npm)
	rm -rf $(VENDOR) $(SITE_VENDOR) .vendor && mkdir -p $(VENDOR) $(SITE_VENDOR) .vendor
	cd .vendor && npm pack --silent plotly.js-cartesian-dist-min@$(PLOTLY) swagger-ui-dist@$(SWAGGER) \
		@mermaid-js/tiny@$(MERMAID) iframe-worker@$(IFRAME_WORKER)
	cd .vendor && for file in *.tgz; do tar xzf $$file --one-top-level; done
	cp .vendor/plotly*/package/plotly-cartesian.min.js $(VENDOR)/plotly.min.js
	cp .vendor/plotly*/package/LICENSE $(VENDOR)/plotly.LICENSE.txt
	cp .vendor/swagger*/package/swagger-ui-bundle.js .vendor/swagger*/package/swagger-ui.css $(VENDOR)
	cp .vendor/swagger*/package/swagger-ui-bundle.js.LICENSE.txt $(VENDOR)
	cp .vendor/swagger*/package/LICENSE $(VENDOR)/swagger-ui.LICENSE.txt
	cp .vendor/mermaid*/package/dist/mermaid.tiny.js $(SITE_VENDOR)/mermaid.js
	cp .vendor/mermaid*/package/LICENSE $(SITE_VENDOR)/mermaid.LICENSE.txt
	cp .vendor/iframe-worker*/package/shim/index.js $(SITE_VENDOR)/iframe-worker.js
	cp .vendor/iframe-worker*/package/LICENSE $(SITE_VENDOR)/iframe-worker.LICENSE.txt
	rm -rf .vendor

clean: ## remove .venv, caches and outputs
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist demo-output
	find sweep_service workers api tests benchmarks validation -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# A new lock file creates a new environment, so that nothing installed from an older one remains.
# --compile-bytecode: with PYTHONDONTWRITEBYTECODE set, every import would otherwise compile again.
$(LOCKED): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Python 3.11 or newer is needed, but '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo missing)." \
			"Choose another: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	$(UV) --require-hashes --compile-bytecode -r requirements.lock \
		|| { echo "uv could not install; trying pip, which knows this machine's own settings" >&2; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock; }
	@touch $@

$(READY): $(LOCKED) pyproject.toml
	$(UV) --no-deps --no-build-isolation -e .
	@touch $@
