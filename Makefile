PYTHON ?= python3
EXTRAS ?= demo,dev,eval,mteb,timm
# Without an NVIDIA GPU, torch 2.13.0 first: pip finds its CPU build on such machines, where an open range would take
# a newer CUDA build of several GB. With a GPU, empty: the requirement in pyproject.toml decides.
TORCH ?= $(shell nvidia-smi -L >/dev/null 2>&1 || echo torch==2.13.0)
# The torchvision of that torch, which timm needs. It is another build and can't be imported beside the CPU build of
# torch until two operators are declared, which a module of the test environment does.
TORCHVISION ?= $(if $(TORCH),torchvision==0.28.0)

BIN := .venv/bin
INSTALLED := .venv/.installed
DEMO := build/demo
# Fewer sizes than by default, whose maps and measurements would take two minutes more on two cores.
SIZES := 0.3,0.5,0.7,0.8
# The oldest transformers and timm that pyproject.toml admits, in a folder of their own beside .venv's newest ones.
OLDEST := build/oldest

# Several processes of one thread each: the models are tiny, and threads only wait for one another. A file's tests stay
# together, as they share what is made once.
WORKERS ?= auto
PYTEST = OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --maxprocesses 4 --dist loadfile

.PHONY: demo test test-versions lint format docs clean

demo: $(INSTALLED)
	test -e $(DEMO) || $(BIN)/pliant rank demo:text --data demo:text --out $(DEMO) --output-maps $(SIZES) \
		$$(test ! -e $(DEMO).partial || echo --resume)
	$(BIN)/pliant eval $(DEMO) --sparsity 0,$(SIZES) --report build/demo-report.html --plot build/demo-curve.png \
		--kept-plot build/demo-kept.png

test: $(INSTALLED)
	$(PYTEST)

# What every family must prove, with the oldest releases of its libraries; `make test` has the newest.
test-versions: $(OLDEST)/.installed
	PYTHONPATH=$(OLDEST) $(BIN)/python tests/oldest.py --check
	PYTHONPATH=$(OLDEST) $(PYTEST) tests/contracts tests/families

lint: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(INSTALLED)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# Rewrites the generated tables, then runs every Python example of README.md and docs/.
docs: $(INSTALLED)
	$(BIN)/python docs/tables.py
	$(BIN)/pytest README.md docs

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis
	find src tests docs -type d -name __pycache__ -prune -exec rm -rf {} +

$(OLDEST)/.installed: $(INSTALLED) tests/oldest.py
	rm -rf $(OLDEST)
	$(BIN)/pip install --quiet --no-deps --target $(OLDEST) $$($(BIN)/python tests/oldest.py)
	@touch $@

$(INSTALLED): pyproject.toml $(wildcard tests/environment/*.py)
	@echo "Installing into .venv; the first time takes a few minutes."
	$(PYTHON) -m venv .venv
	torch="$(TORCH)"; test -z "$$torch" || $(BIN)/pip install --quiet "$$torch"
	vision="$(TORCHVISION)"; test -z "$$vision" || $(BIN)/pip install --quiet --no-deps "$$vision"
	$(BIN)/pip install --quiet -e '.[$(EXTRAS)]'
	vision="$(TORCHVISION)"; test -z "$$vision" || $(BIN)/python tests/environment/install.py
	@touch $@
