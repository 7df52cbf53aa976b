"""The evaluation of hybridmem on public data: data sets, systems, metrics, experiments. Run it as ``python -m eval``.

Not part of the installed package. The parts, each imported only from those before it:

types       what a data set is, once it is loaded
metrics     pure functions: ranked ids + gold ids -> numbers
experiment  the YAML file of an experiment, validated
embedding   one embedding model, asked once per text, shared by every system
datasets/   a loader per public data set; a table of names
systems/    hybridmem and what it is compared with; a table of names
runner      corpus by corpus, system by system, question by question
results     where the numbers came from, and the result file
report      the table on the screen, made from a result
cli         python -m eval
"""
