"""PostgreSQL as a mirror's target: its SQL for rows, and MySQL's DDL statements in its language.

In come groups of rows and statements of a source, out go statements for PostgreSQL, or why there is none. Only `server`
talks to a server.
"""
