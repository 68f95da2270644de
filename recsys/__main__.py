from recsys.cli import main

main()
