"""S3 in all its forms: SGD as a process of the overlaps, at a cost independent of d."""
