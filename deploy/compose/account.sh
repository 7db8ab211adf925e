#!/bin/sh
# MySQL's image runs this once: Sluice's account, and a table to begin with.
set -eu
mysql -u root -p"$MYSQL_ROOT_PASSWORD" <<SQL
CREATE USER 'sluice'@'%' IDENTIFIED BY '$MYSQL_PASSWORD';
GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'sluice'@'%';
CREATE DATABASE shop;
CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, item VARCHAR(100), amount DECIMAL(10, 2));
INSERT INTO shop.orders (item, amount) VALUES ('lock gate', 120.50), ('rope', 9.90);
SQL
