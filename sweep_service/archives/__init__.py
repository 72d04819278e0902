"""Archives: finished sweeps as one zip file that can be published, and imported into another data folder.

An archive is a zip file and an RO-Crate 1.1:

ro-crate-metadata.json    what the archive holds, who made it and with which code, as JSON-LD
README.md, CITATION.bib   the same for people; what to cite
environment.json          versions of code, packages and machine that computed each sweep
figures/<id>.png .svg .pdf
sweeps/<id>.json          the spec
sweeps/<id>.notes.json    name, note and tags, if they were changed
sweeps/<id>.zarr/…        the dataset, which xarray opens once it is unpacked
manifest-sha256.txt       the SHA-256 digest of every other file

An import reads only the manifest, the spec, the notes and the chunks of the dataset. Keys, labels and the
counts of runs are computed again from the spec and the statuses; nothing else of an archive is believed.
"""
