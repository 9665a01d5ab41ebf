"""Search with slim queries: the index is built once by the full model, queries run at whatever size there is time for.

Run: python examples/slim_queries.py [--ranker soft-mask]   (the default here is the quick fisher)
"""

import argparse

import torch

import pliant
from pliant.checkpoint import DEMO_MODEL, open_checkpoint
from pliant.cli.calibration import CalibrationData
from pliant.demo import docstring_retrieval
from pliant.evaluation.embedding import embed_texts
from pliant.loaders import TextBatches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranker", default="fisher")
    options = parser.parse_args()

    checkpoint = open_checkpoint(DEMO_MODEL)
    batches = CalibrationData("demo:text").batches(checkpoint)
    ranking = pliant.rank(checkpoint.model, batches, ranker=options.ranker, pooling=checkpoint.pooling)
    elastic = pliant.Elastic(checkpoint.model, ranking)

    task = docstring_retrieval(limit_queries=5, limit_documents=200)
    tokenizer = checkpoint.preprocessor()

    def embed(sparsity: float, texts: tuple[str, ...]) -> torch.Tensor:
        embeddings = embed_texts(
            elastic.at(sparsity=sparsity), texts, lambda found: TextBatches(found, tokenizer, 32, 128), "mean"
        )
        return torch.nn.functional.normalize(embeddings, dim=-1)

    index = embed(0.0, task.documents)
    for sparsity in (0.0, 0.3, 0.5):
        best = (embed(sparsity, task.queries) @ index.T).argmax(dim=1).tolist()
        right = sum(found in relevant for found, relevant in zip(best, task.relevant, strict=True))
        print(f"sparsity {sparsity:.1f}: {right} of {len(task.queries)} queries find their document first")


if __name__ == "__main__":
    main()
