"""SQLite, the one truth: schema, transactions, and the only SQL of the project.

``connect`` opens and commits; ``tree``, ``log``, ``lexical``, ``outbox`` and ``points`` hold the statements, each
function taking the connection of a transaction that ``connect`` opened.
"""
