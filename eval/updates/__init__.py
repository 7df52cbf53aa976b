"""``python -m eval updates``: of a note and a later one that corrects it, which comes first when asked what holds?"""
