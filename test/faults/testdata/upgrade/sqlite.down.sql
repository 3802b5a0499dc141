-- Nothing takes this step back.
DROP TABLE noted;
