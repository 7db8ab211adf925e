"""What must be true of a batch's rows before they are in their table: values of the configuration, and their
evaluation. Nothing here needs Spark. In order:

values          values of a configuration as Arrow has them in a column
column_tests    tests of one column's value
expectation     `Expectation`: a test, its name and its severity; and those of a destination, by table
results         the result of an expectation in one batch
row_judge       evaluates tests of columns over a table's rows, batch by batch
lookups         `unique` and `references`, which need the rows of tables
quarantine      the rows of a table that failed and wait: what a batch makes of them
quarantine_table    the Delta table that has them
acceptance      notes of blocked tables, and of batches that a person accepted
"""
