"""The reference of public names as pages for the site, made from signatures and docstrings."""
