"""The evaluation of hybridmem on public and made data: data sets, systems, experiments. Run it as ``python -m eval``.

Not part of the installed package. The parts, each imported only from those before it:

types         what a data set is, once it is loaded
metrics       pure functions: ranked ids + gold ids -> numbers
significance  pure functions: intervals, and the paired test
experiment    the YAML file of an experiment, validated, and the runs it falls into
cache         vectors that were computed before, on disk
embedding     one embedding model, asked once per text, shared by every system
datasets/     a loader per data set; a table of names
systems/      hybridmem, its ablations and what it is compared with; a table of names
figures       from question logs to figures and tests
runner        one run: corpus by corpus, system by system, question by question
results       where the numbers came from, and the result file
batch         the runs of an experiment; passes over those that are there
sheet         a table, for the terminal and for Markdown
tables        the tables of results, made from results alone
bench/        the benchmark: latency and throughput on made stores of any size
plots         PNG files, made from results; needs matplotlib
report        one Markdown file with all tables and plots, made from results
cli           python -m eval
"""
