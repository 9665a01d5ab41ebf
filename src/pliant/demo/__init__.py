"""Models, calibration inputs and tasks that are already on the machine: nothing here uses a network."""

from pliant.demo.pictures import Pictures, calibration_images, evaluation_images, labelled_images
from pliant.demo.text import calibration_texts, docstring_retrieval, model_directory
from pliant.demo.vision import vision_directory

__all__ = [
    "Pictures",
    "calibration_images",
    "calibration_texts",
    "docstring_retrieval",
    "evaluation_images",
    "labelled_images",
    "model_directory",
    "vision_directory",
]
