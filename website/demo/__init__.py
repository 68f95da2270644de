"""The model in the page: what the site's demonstration computes with."""
