"""SQLite, the one truth: schema, transactions, and the only SQL of the project.

``directory`` says what lies where, ``lock`` and ``swap`` who may be there; ``backup`` copies and checks whole files.
``connect`` opens and commits; ``tree``, ``log``, ``lexical``, ``outbox`` and ``points`` hold the statements, each
function taking the connection of a transaction that ``connect`` opened.
"""
