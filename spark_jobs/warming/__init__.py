"""In: a Spark server that has just started, and a scratch folder. Out: the server has loaded, compiled and started what
a first batch needs; the folder is gone."""
