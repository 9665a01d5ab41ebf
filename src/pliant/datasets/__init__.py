"""Inputs with answers, to measure by: classes, scored pairs, and retrieval collections."""

from pliant.datasets.beir import retrieval_directory
from pliant.datasets.labelled import labelled_images, labelled_texts
from pliant.datasets.scored import scored_pairs

__all__ = ["labelled_images", "labelled_texts", "retrieval_directory", "scored_pairs"]
